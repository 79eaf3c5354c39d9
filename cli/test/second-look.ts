import { sumOf, type TestCount } from './ava-output.ts'

/**
 * Runs files together. When a file that hangs ends the run, another one continues with those that it never reached, for as long as that
 * reaches any. The counts of both are added.
 */
export async function reachingAll(
  files: string[],
  run: (files: string[]) => Promise<ReadonlyMap<string, TestCount>>,
): Promise<ReadonlyMap<string, TestCount>> {
  const counts = new Map(await run(files))
  for (;;) {
    const left = files.filter(file => !counts.has(file))
    // Ava names no file in a run of one.
    if (left.length <= 1) return counts
    const more = await run(left)
    for (const [file, count] of more) counts.set(file, sumOf([count, counts.get(file) ?? sumOf([])]))
    if (!left.some(file => more.has(file))) return counts
  }
}

/** If more files than this fail together, the code is broken. */
const maxUnstableFiles = 8

/**
 * The files of a whole run that are run again, each alone: those that failed, and those that an aborted run never reached. Empty if
 * more failed than unstable tests explain, or if a failure names no file.
 */
export function filesOfSecondLook(files: string[], first: ReadonlyMap<string, TestCount>): string[] {
  const failed = files.filter(file => first.get(file)?.failed)
  if (first.get('')?.failed || failed.length > maxUnstableFiles) return []
  return files.filter(file => !first.has(file) || failed.includes(file))
}

/**
 * The counts of a whole run. A failure stays a failure when its file passes alone, unless unstable files are allowed; for a file that
 * was never reached the second run counts.
 */
export function countedFiles(
  first: ReadonlyMap<string, TestCount>,
  second: ReadonlyMap<string, TestCount>,
  allowUnstable: boolean,
): ReadonlyMap<string, TestCount> {
  return allowUnstable ? new Map([...first, ...second]) : new Map([...second, ...first])
}

/** The files that failed in the whole run and passed alone. */
export function unstableFiles(first: ReadonlyMap<string, TestCount>, second: ReadonlyMap<string, TestCount>): string[] {
  return [...second].filter(([file, { failed }]) => failed === 0 && first.get(file)?.failed).map(([file]) => file)
}
