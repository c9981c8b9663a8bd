/** ICMPv6 types that the pipeline distinguishes (RFC 4861 section 4). */
export const icmpv6 = {
  routerSolicitation: 133,
  routerAdvertisement: 134,
  neighbourSolicitation: 135,
  neighbourAdvertisement: 136,
  redirect: 137,
} as const;

/** All types of neighbour discovery: on-link only, so none of it is ever routed or tracked. */
export const neighbourDiscovery: readonly number[] = Object.values(icmpv6);
