//! The real program from outside: its command line, its settings, its start, its shutdown, its crash.

mod command_line;
mod crash;
mod data_dir;
mod emptied_redis;
mod followed_name;
mod given_up;
mod log;
mod readme;
mod redis;
mod reload;
mod settings;
mod start;
mod stop;
mod store_unavailable;
mod supervisor;
