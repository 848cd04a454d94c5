//! The verdicts on histories: of those made by hand, random ones, long ones, and those of threads.

mod histories;
mod notation;
mod programs;
mod random;
mod scale;
mod seeds;
mod threads;
