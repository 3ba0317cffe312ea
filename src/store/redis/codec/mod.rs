//! How the engine writes down what it keeps in Redis: the bytes of a job. Knows no server and no script.

pub mod record;
