//! Through real sockets.
