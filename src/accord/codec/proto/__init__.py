"""The protocol's protobuf schemas: `.proto` files, and what the compiler makes of them."""
