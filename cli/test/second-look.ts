import type { TestCount } from './ava-output.ts'

/** More files than this fail together only when the code is broken. */
const mostUnstableFiles = 8

/**
 * The files of a whole run that run once more, each alone: those that failed, and those that a run which was cut short never
 * reached. Empty when so many failed that the code itself must be broken, or when a failure names no file.
 */
export function filesOfSecondLook(files: string[], first: ReadonlyMap<string, TestCount>): string[] {
  const failed = files.filter(file => first.get(file)?.failed)
  if (first.get('')?.failed || failed.length > mostUnstableFiles) return []
  return files.filter(file => !first.has(file) || failed.includes(file))
}

/**
 * What a whole run counts. A failure stays one when its file passes alone, unless unstable files are allowed; of a file that was never
 * reached the second look counts.
 */
export function countedFiles(
  first: ReadonlyMap<string, TestCount>,
  second: ReadonlyMap<string, TestCount>,
  allowUnstable: boolean,
): ReadonlyMap<string, TestCount> {
  return allowUnstable ? new Map([...first, ...second]) : new Map([...second, ...first])
}

/** The files that failed beside others and passed alone. */
export function unstableFiles(first: ReadonlyMap<string, TestCount>, second: ReadonlyMap<string, TestCount>): string[] {
  return [...second].filter(([file, { failed }]) => failed === 0 && first.get(file)?.failed).map(([file]) => file)
}
