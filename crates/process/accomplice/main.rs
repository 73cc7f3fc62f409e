//! A child for the tests of the kernel witness, not part of the product.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a child of tests, which talks to them")]

#[cfg(target_os = "linux")]
mod parts;

fn main() {
    #[cfg(target_os = "linux")]
    parts::play();
}
