const digest = '@sha256:[0-9a-f]{64}';
const tag = ':[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}';

/**
 * Names of images with a tag, a digest or both. A name without them stands for the tag `latest`, which nodes pull at different times. The source
 * is also a pattern of the chart's schema, which Go reads: no look-ahead.
 */
const pattern = `^(?:(?:[A-Za-z0-9.-]+|\\[[0-9A-Fa-f:]+\\])(?::[0-9]{1,5})?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?:${tag}(?:${digest})?|${digest})$`;
const imageNamePattern = new RegExp(pattern);
/** The same, or nothing. */
export const imageNameOrNone = new RegExp(`^$|${pattern}`);

/** @throws Error naming the option, its value and what is needed */
export function imageName(option: string, name: string): string {
  if (imageNamePattern.test(name)) return name;
  throw new Error(
    `--${option} ${name}: not the name of an image with a tag or a digest, such as registry.example/seine/agent:1.0 or …/agent@sha256:…`,
  );
}
