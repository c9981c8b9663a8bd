/**
 * Version of agent and seinectl. It repeats that of package.json, which a program bundled into one file does not have; a test compares the
 * two.
 */
export const seineVersion = '0.33.0';
