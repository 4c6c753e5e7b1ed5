# Generated from the manifest by tileops_core.ops._generate; do not edit.

from tileops_core.ops import attention as attention
from tileops_core.ops import elementwise as elementwise
from tileops_core.ops import gemm as gemm
from tileops_core.ops import norm as norm
from tileops_core.ops import reduction as reduction
from tileops_core.ops.attention import GQADenseFwdOp as GQADenseFwdOp
from tileops_core.ops.elementwise import AddFwdOp as AddFwdOp
from tileops_core.ops.elementwise import GELUFwdOp as GELUFwdOp
from tileops_core.ops.elementwise import MulFwdOp as MulFwdOp
from tileops_core.ops.elementwise import ReLUFwdOp as ReLUFwdOp
from tileops_core.ops.gemm import BMMFwdOp as BMMFwdOp
from tileops_core.ops.gemm import GEMMFwdOp as GEMMFwdOp
from tileops_core.ops.norm import FusedAddLayerNormFwdOp as FusedAddLayerNormFwdOp
from tileops_core.ops.norm import LayerNormFwdOp as LayerNormFwdOp
from tileops_core.ops.norm import RMSNormFwdOp as RMSNormFwdOp
from tileops_core.ops.reduction import SoftmaxFwdOp as SoftmaxFwdOp
from tileops_core.ops.reduction import SumFwdOp as SumFwdOp
