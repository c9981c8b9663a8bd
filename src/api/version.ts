/** Of agent and seinectl alike. The same as in package.json, which a program that is one bundled file does not have; a test holds it. */
export const seineVersion = '0.22.0';
