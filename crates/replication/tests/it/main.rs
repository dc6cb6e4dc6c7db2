//! Databases that replicate to each other, on simulated disks, in one thread.

mod documents;
mod generated;
mod parts;
mod world;
