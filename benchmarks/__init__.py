"""The measured claims of the README: `python -m benchmarks`, or `nox -s bench`.

Every module measures one part of the library and states its rows with their budgets:
`call_overhead` (what a call adds to its kernel), `compiled` (what it costs in compiled code),
`construction`, `cold_start` and `validator`; `instructions` counts by `counting` what a call takes
on any machine. `peer` fetches the library that the figures are
compared with, `workers` runs both in alternating processes, and `report` prints one table and
writes `RESULTS.md`.

`python -m benchmarks.profile_call` says what each line of an op's generated call costs.

`python -m benchmarks.kernels` measures TileLang's kernels against torch and writes `KERNELS.md`:
`kernel_cases` says on which calls, `kernel_eager` what somebody without us writes, `kernel_times`
measures, `kernel_report` and `kernel_grid` show it.
"""
