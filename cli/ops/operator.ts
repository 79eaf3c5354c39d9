import { readFileSync } from 'node:fs'
import { record } from '../../db/audit.ts'
import type { Db } from '../../db/database.ts'

interface Keyboard {
  /** The kernel's note of who has logged in, which stays through sudo; null where nobody is noted. */
  loginUid: number | null
  uid: number
  /** What the environment says, where anybody may write anything. */
  said: string | undefined
  /** Lines of /etc/passwd. */
  users: string
}

/** Who is at the keyboard, also behind sudo: `operator:<login name>`. A name that only the environment says is marked as such. */
export function operatorOf({ loginUid, uid, said, users }: Keyboard): string {
  if (loginUid !== null) return `operator:${nameOf(loginUid, users)}`
  const own = nameOf(uid, users)
  return `operator:${said && said !== own ? `${own}, says ${said}` : own}`
}

/** A container may run as a user that has no name. */
function nameOf(uid: number, users: string): string {
  const found = users.split('\n').find(line => line.split(':')[2] === String(uid))
  return found?.split(':')[0] || `uid ${uid}`
}

export const operatorName = (): string =>
  operatorOf({
    loginUid: noted(read('/proc/self/loginuid')),
    uid: process.getuid?.() ?? 0,
    said: process.env.SUDO_USER,
    users: read('/etc/passwd'),
  })

/** The number for nobody is the largest of 32 bits. */
function noted(text: string): number | null {
  const uid = text.trim()
  return /^\d+$/.test(uid) && uid !== '4294967295' ? Number(uid) : null
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

export interface Act {
  /** Verb as it is typed: `users.block`. */
  action: string
  /** Whom it concerns; null = the platform itself. */
  accountId: string | null
  resource?: string
  operationId?: string
}

/** Writes an operator's act into the audit record, in the transaction that does it. */
export async function recordAct(trx: Db, { action, accountId, resource, operationId }: Act): Promise<void> {
  const concerned = { accountId, resource: resource ?? null, operationId: operationId ?? null }
  await record(trx, { actor: operatorName(), action, result: 'success', ...concerned })
}
