//! What the metrics port tells, in the simulator and as a process: numbers that are right and bounded, a port that answers from the first
//! moment and takes any bytes.

mod process;
mod scenes;
mod transactions;
