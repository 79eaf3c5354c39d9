/** Whether a test run needs something: a whole run does, and one of which a file or folder has this in its path. */
export const runsFilesOf = (files: readonly string[], ownFiles: string): boolean =>
  files.length === 0 || files.some(file => file.includes(ownFiles) || /^(\.\/)?test(\/?|\/\*.*)$/.test(file))
