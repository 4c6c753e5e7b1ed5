"""Manifest text becomes a Spec: YAML nodes with places, a closed grammar, attrs entries."""
