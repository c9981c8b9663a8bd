/**
 * Tags of tests, by which a run chooses some of the tests of several files: `--tags-filter`.
 *
 * `hardening`: what a tenant, a pod author or a user of a node must not be able to do, and what must keep working beside it. Packets decide, so
 * these also run on the kernel's data path, in one virtual machine (`npm run test:kernel -- --only hardening`).
 */
export const testTags = [{ name: 'hardening' }] as const;

declare module 'vitest' {
  interface TestTags {
    readonly tags: (typeof testTags)[number]['name'];
  }
}
