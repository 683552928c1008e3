module weir/stacks/line

go 1.25.0
