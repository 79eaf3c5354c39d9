import type { MailLocale } from './mail/template.ts'

/** Languages that an account may choose itself (specification 4.1); mail is written in more. */
export const choosableLocales = ['pt-BR', 'en-US', 'es-ES', 'zh-CN'] as const satisfies readonly MailLocale[]
