// Package peertest holds stand-ins for the programs that the commands talk to: a
// scripted model that the real Codex (Responses) and the real OpenHands (Chat
// Completions) take for their provider, and a scripted app-server. Tests run them in
// their own process or as programs of their own.
//
// It is not for the product, and it does not use the product's encoders: a
// stand-in that shares them cannot show their faults. Model is safe for
// concurrent use.
package peertest
