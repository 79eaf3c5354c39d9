import type { MailSettings } from '../policy/mail/settings.ts'
import { folderMailer } from './mailer.folder.ts'
import { smtpMailer } from './mailer.smtp.ts'
import type { Mailer } from './mailer.ts'

/** The mailer that the configuration names. */
export function openMailer({ smtp, folder }: MailSettings): Mailer {
  return smtp ? smtpMailer(smtp) : folderMailer(folder)
}
