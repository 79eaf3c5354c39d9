import { readFileSync, statSync } from 'node:fs'

/** The id of the user that a folder belongs to; undefined when it is missing. */
function ownerOf(folder: string): number | undefined {
  try {
    return statSync(folder).uid
  } catch {
    return undefined
  }
}

/**
 * Throws an Error that names both users when the data folder belongs to another user: only its owner can read its secrets, records and
 * logs, and a start would fail halfway with a system error. Root may enter every folder.
 */
export function mustBeOwn(folder: string, me = process.getuid?.() ?? 0, owner = ownerOf(folder)): void {
  if (me === 0 || owner === undefined || owner === me) return
  const other = userOf(owner)
  throw new Error(
    `The data folder ${folder} belongs to ${other}, and this command runs as ${userOf(me)}. Run it as ${other}, or set BERTH_DATA to a folder of your own.`,
  )
}

function userOf(uid: number): string {
  const row = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find(line => line.split(':')[2] === String(uid))
  return row?.split(':', 1)[0] ?? `the user with the id ${uid}`
}

/** Runs `create`, which creates a folder. Throws an Error that says what to do if this user may not write there. */
export function createInside<T>(folder: string, create: () => T): T {
  try {
    return create()
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    throw new Error(
      `The data folder ${folder} cannot be created: ${userOf(process.geteuid?.() ?? 0)} may not write there. Set BERTH_DATA to a folder of your own.`,
      { cause: error },
    )
  }
}
