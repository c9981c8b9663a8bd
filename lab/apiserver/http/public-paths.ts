/** Health and version: served without a token. */
export function isPublic(path: string): boolean {
  return /^\/(healthz|livez|readyz)(\/|$)/.test(path) || path === '/version' || path === '/version/';
}
