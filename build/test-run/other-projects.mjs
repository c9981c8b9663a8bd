/** Projects of vitest.config.ts that have commands of their own, which install what they need: none is part of `npm test`. */
export const otherProjects = ['ui', 'runtime', 'images', 'upgrade', 'ovs', 'export', 'kubernetes', 'release'];

export const withoutOthers = otherProjects.map((name) => `--project=!${name}`);

/** Returns the selection for the arguments of `npm test`: a path or a project selects projects; a name alone does not. */
export function projectsFor(args) {
  return args.some((arg) => /^--project|test\/ui\/|runtime|upgrade|test\/ovs\/|test\/export\/|kubernetes|test\/release\//.test(arg))
    ? []
    : withoutOthers;
}
