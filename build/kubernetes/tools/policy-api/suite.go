// Package suite keeps the conformance suite of ClusterNetworkPolicy, and what its tests import, among the requirements of this module.
package suite

import _ "sigs.k8s.io/network-policy-api/conformance"
