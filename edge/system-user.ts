import { readFile } from 'node:fs/promises'

export interface SystemUser {
  name: string
  uid: number
  gid: number
}

/** A row of the system's user table. Throws an Error when there is no such user. */
export async function systemUser(name: string): Promise<SystemUser> {
  const rows = (await readFile('/etc/passwd', 'utf8')).split('\n').map(row => row.split(':'))
  const row = rows.find(([user]) => user === name)
  if (!row) throw new Error(`The system has no user "${name}" for the proxy's workers.`)
  return { name, uid: Number(row[2]), gid: Number(row[3]) }
}
