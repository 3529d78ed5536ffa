//! The `pelton-perf` binary; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    pelton_perf::main()
}
