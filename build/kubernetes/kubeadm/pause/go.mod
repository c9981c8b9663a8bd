module seine.dev/pause

go 1.21
