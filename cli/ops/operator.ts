import { readFileSync } from 'node:fs'
import { recordAudit } from '../../db/audit.ts'
import type { Db } from '../../db/database.ts'

interface Keyboard {
  /** The login uid that the kernel keeps across sudo; null if none is set. */
  loginUid: number | null
  uid: number
  /** The user name in the environment, which anyone can set. */
  claimedName: string | undefined
  /** Lines of /etc/passwd. */
  users: string
}

/** The person at the keyboard, also behind sudo: `operator:<login name>`. A name that only the environment gives is marked as such. */
export function operatorOf({ loginUid, uid, claimedName, users }: Keyboard): string {
  if (loginUid !== null) return `operator:${nameOf(loginUid, users)}`
  const own = nameOf(uid, users)
  return `operator:${claimedName && claimedName !== own ? `${own}, says ${claimedName}` : own}`
}

/** A container may run as a user that has no name. */
function nameOf(uid: number, users: string): string {
  const line = users.split('\n').find(line => line.split(':')[2] === String(uid))
  return line?.split(':')[0] || `uid ${uid}`
}

export const operatorName = (): string =>
  operatorOf({
    loginUid: uidIn(read('/proc/self/loginuid')),
    uid: process.getuid?.() ?? 0,
    claimedName: process.env.SUDO_USER,
    users: read('/etc/passwd'),
  })

/** "Not set" is the largest number of 32 bits. */
function uidIn(text: string): number | null {
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
  /** The command as typed: `users.block`. */
  action: string
  /** The account concerned; null = the platform itself. */
  accountId: string | null
  resource?: string
  operationId?: string
}

/** Records an operator's act in the audit record, in the transaction that performs it. */
export async function recordAct(trx: Db, { action, accountId, resource, operationId }: Act): Promise<void> {
  const subject = { accountId, resource: resource ?? null, operationId: operationId ?? null }
  await recordAudit(trx, { actor: operatorName(), action, result: 'success', ...subject })
}
