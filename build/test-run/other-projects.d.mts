export declare const otherProjects: readonly string[];
export declare function projectsFor(args: readonly string[]): readonly string[];
