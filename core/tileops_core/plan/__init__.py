"""Signature -> plan: the functions generated for one op class."""
