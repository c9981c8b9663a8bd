/** Reports whether a path is served without a token: health and version. */
export function isPublic(path: string): boolean {
  return /^\/(healthz|livez|readyz)(\/|$)/.test(path) || path === '/version' || path === '/version/';
}
