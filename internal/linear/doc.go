// Package linear judges what clients were told about objects: it looks for an order in which a store that loses nothing
// could have done everything at once. It is for tests, in a simulated cluster and with real masters.
//
// It owns the model of one key: an object is there or not, a put makes it, an upsert replaces it, a removal
// ends it, nothing else does. It refuses
// to know how the history was recorded. Keys are judged one by one.
//
// A call whose outcome nobody knows may have taken effect at any time after its begin, or never.
//
//	history.Add(linear.Op{Key: "k", Kind: linear.Put, Value: 7, Outcome: linear.Done, Call: 10, Return: 20})
//	bad, err := history.Check(time.Minute)
package linear
