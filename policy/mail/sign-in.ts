import type { MailTemplate } from './template.ts'

/** The code that signs its account in. `signIn` is the id that the code derives from. */
export type SignIn = { signIn: string; code: string }

export const signIn: MailTemplate<SignIn> = {
  'pt-BR': ({ code }) => ({
    subject: `${code} é o seu código de acesso`,
    text: `Seu código de acesso é:

    ${code}

Ele vale por 10 minutos e só pode ser usado uma vez. Se você não tentou entrar, ignore este e-mail e não informe o código a ninguém.`,
  }),
  'en-US': ({ code }) => ({
    subject: `${code} is your sign-in code`,
    text: `Your sign-in code is:

    ${code}

It is valid for 10 minutes and can be used once. If you did not try to sign in, ignore this mail and do not share the code.`,
  }),
  'es-ES': ({ code }) => ({
    subject: `${code} es tu código de acceso`,
    text: `Tu código de acceso es:

    ${code}

Es válido durante 10 minutos y solo puede usarse una vez. Si no has intentado iniciar sesión, ignora este correo y no compartas el código con nadie.`,
  }),
  'zh-CN': ({ code }) => ({
    subject: `您的登录验证码是 ${code}`,
    text: `您的登录验证码是：

    ${code}

验证码 10 分钟内有效，且只能使用一次。如果您没有尝试登录，请忽略此邮件，并且不要将验证码告诉任何人。`,
  }),
  'ja-JP': ({ code }) => ({
    subject: `ログインコード: ${code}`,
    text: `ログインコードは次のとおりです。

    ${code}

有効期限は 10 分で、使用できるのは 1 回だけです。ログインしようとしていない場合は、このメールを無視し、コードを誰にも教えないでください。`,
  }),
  'fr-FR': ({ code }) => ({
    subject: `${code} est votre code de connexion`,
    text: `Votre code de connexion est :

    ${code}

Il est valable 10 minutes et ne peut servir qu'une fois. Si vous n'avez pas essayé de vous connecter, ignorez ce message et ne communiquez ce code à personne.`,
  }),
  'de-DE': ({ code }) => ({
    subject: `${code} ist Ihr Anmeldecode`,
    text: `Ihr Anmeldecode lautet:

    ${code}

Er gilt 10 Minuten lang und nur einmal. Wenn Sie sich nicht anmelden wollten, beachten Sie diese Mail nicht und geben Sie den Code an niemanden weiter.`,
  }),
  'it-IT': ({ code }) => ({
    subject: `${code} è il tuo codice di accesso`,
    text: `Il tuo codice di accesso è:

    ${code}

È valido per 10 minuti e può essere usato una sola volta. Se non hai cercato di accedere, ignora questa e-mail e non comunicare il codice a nessuno.`,
  }),
}
