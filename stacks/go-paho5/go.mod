module weir/stacks/go-paho5

go 1.25.0

require (
	github.com/eclipse/paho.golang v0.23.0
	weir/stacks/line v0.0.0
)

replace weir/stacks/line => ../lib/go
