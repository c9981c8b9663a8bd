/**
 * Reports whether `key` is the object's own, so that `constructor` or `__proto__` are never found by accident. `Object.hasOwn` is newer
 * than the engine of the plugin (ECMAScript 2020).
 */
export function hasOwnKey(object: object, key: string): boolean {
  return Object.getOwnPropertyDescriptor(object, key) !== undefined;
}
