"""Every limit at the number it has, one past it, and far past it."""
