"""A Spec becomes a Signature: names resolved, kinds checked, families expanded."""
