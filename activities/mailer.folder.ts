import { mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { mailMessage } from './mail-message.ts'
import type { Mailer } from './mailer.ts'

/** For installations without a mail server: each mail is a file that any mail program opens, named by time and id. */
export function folderMailer(folder: string): Mailer {
  return {
    async send(mail, signal) {
      const message = mailMessage(mail)
      const path = join(folder, `${mail.date.toISOString().replaceAll(':', '')}-${mail.id}.eml`)
      const temporary = `${path}.new`
      await mkdir(folder, { recursive: true, mode: 0o700 })
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
      } catch (error) {
        await rm(temporary, { force: true })
        throw error
      }
    },
  }
}
