import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { dayMs } from '../../lib/time.ts'
import { mailsRetainedDays } from '../../policy/mail/delivery.ts'
import { mailMessage } from './message.ts'
import type { Mailer } from './port.ts'

/** For installations without a mail server: stores each mail for 30 days as a file that any mail program can open, named by time and id. */
export function folderMailer(folder: string): Mailer {
  return {
    async send(mail, signal) {
      const message = await mailMessage(mail)
      const path = join(folder, `${stamp(mail.date)}-${mail.id}.eml`)
      const temporary = `${path}.new`
      const firstCreated = await mkdir(folder, { recursive: true, mode: 0o700 })
      signal.throwIfAborted()
      try {
        const file = await open(temporary, 'w', 0o600)
        try {
          await file.writeFile(message)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(temporary, path)
        // The row of a sent mail is deleted: from here on the file is the only copy.
        await syncFolder(folder)
        if (firstCreated) await syncFolder(dirname(firstCreated))
        await removeOld(folder)
      } catch (error) {
        await rm(temporary, { force: true })
        throw error
      }
    },
  }
}

const stamp = (date: Date): string => date.toISOString().replaceAll(':', '')
const namePattern = /^(\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z)-[0-9a-f]+\.eml(\.new)?$/

/** Also removes the half-written files of dead processes. */
async function removeOld(folder: string): Promise<void> {
  const oldest = stamp(new Date(Date.now() - mailsRetainedDays * dayMs))
  for (const name of await readdir(folder)) {
    const [, written] = namePattern.exec(name) ?? []
    if (written && written < oldest) await rm(join(folder, name), { force: true })
  }
}
