"""One SGD step of finite size: mean, moments, noise; the committee."""
