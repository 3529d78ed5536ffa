//! The `pelton` binary; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    pelton::main()
}
