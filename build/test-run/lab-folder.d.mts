export declare function labFolderOf(name: string): string;
