/** Languages that mail is written in (contract 3). */
export const locales = ['en-US', 'pt-BR', 'es-ES', 'zh-CN', 'ja-JP', 'fr-FR', 'de-DE', 'it-IT'] as const

export type Locale = (typeof locales)[number]

/** Those that an account may choose itself (specification 4.1). */
export const choosableLocales = ['pt-BR', 'en-US', 'es-ES', 'zh-CN'] as const satisfies readonly Locale[]
