//! Ops said in the way that is fastest on the platform, and layouts chosen for the whole graph.
