"""Text as bytes: views that kernels read without a copy."""
