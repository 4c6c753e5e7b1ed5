"""A page for readers per family of the manifest, made from its entries.

``python -m tileops_core.pages`` writes the repository's ``docs/contract`` anew.
"""
