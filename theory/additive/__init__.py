"""The additive model: population loss, gradient, and closed overlap flow."""
