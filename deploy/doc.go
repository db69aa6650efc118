// Package deploy holds what starts the daemons on hosts and in clusters: units of systemd, an image, Compose, manifests for
// Kubernetes. It has no code of its own; its tests read every file and start the daemons with the flags that stand there.
// docs/deploy.md explains how to use them.
package deploy
