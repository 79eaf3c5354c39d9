import type { MailTemplate } from './template.ts'

/** The code that confirms a step to a lower plan. `downgrade` is the id that the code derives from. */
export type DowngradeCode = { downgrade: string; code: string; from: string; to: string }

export const downgradeCode: MailTemplate<DowngradeCode> = {
  'pt-BR': ({ code, from, to }) => ({
    subject: `${code} confirma a mudança para o plano ${to}`,
    text: `Para mudar do plano ${from} para o plano ${to}, confirme com este código:

    ${code}

Ele vale por 10 minutos. Se você não pediu a mudança, ignore este e-mail e não informe o código a ninguém.`,
  }),
  'en-US': ({ code, from, to }) => ({
    subject: `${code} confirms the change to plan ${to}`,
    text: `To change from plan ${from} to plan ${to}, confirm with this code:

    ${code}

It is valid for 10 minutes. If you did not request the change, ignore this mail and do not share the code.`,
  }),
  'es-ES': ({ code, from, to }) => ({
    subject: `${code} confirma el cambio al plan ${to}`,
    text: `Para cambiar del plan ${from} al plan ${to}, confirma con este código:

    ${code}

Es válido durante 10 minutos. Si no has pedido el cambio, ignora este correo y no compartas el código con nadie.`,
  }),
  'zh-CN': ({ code, from, to }) => ({
    subject: `${code} 是更换为 ${to} 套餐的确认码`,
    text: `要将套餐从 ${from} 更换为 ${to}，请使用以下确认码：

    ${code}

确认码 10 分钟内有效。如果您没有申请更换套餐，请忽略此邮件，并且不要将确认码告诉任何人。`,
  }),
  'ja-JP': ({ code, from, to }) => ({
    subject: `プラン ${to} への変更の確認コード: ${code}`,
    text: `プランを ${from} から ${to} に変更するには、次のコードで確認してください。

    ${code}

有効期限は 10 分です。変更を依頼していない場合は、このメールを無視し、コードを誰にも教えないでください。`,
  }),
  'fr-FR': ({ code, from, to }) => ({
    subject: `${code} confirme le passage à la formule ${to}`,
    text: `Pour passer de la formule ${from} à la formule ${to}, confirmez avec ce code :

    ${code}

Il est valable 10 minutes. Si vous n'avez pas demandé ce changement, ignorez ce message et ne communiquez ce code à personne.`,
  }),
  'de-DE': ({ code, from, to }) => ({
    subject: `${code} bestätigt den Wechsel zum Tarif ${to}`,
    text: `Um vom Tarif ${from} zum Tarif ${to} zu wechseln, bestätigen Sie mit diesem Code:

    ${code}

Er gilt 10 Minuten lang. Wenn Sie nicht wechseln wollten, beachten Sie diese Mail nicht und geben Sie den Code an niemanden weiter.`,
  }),
  'it-IT': ({ code, from, to }) => ({
    subject: `${code} conferma il passaggio al piano ${to}`,
    text: `Per passare dal piano ${from} al piano ${to}, conferma con questo codice:

    ${code}

È valido per 10 minuti. Se non hai chiesto il cambio, ignora questa e-mail e non comunicare il codice a nessuno.`,
  }),
}
