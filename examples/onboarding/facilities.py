"""The facilities agent: desks, and badges as PDF."""

from accord import Agent, Context, File

from .person import EXAMPLE, Person

agent = Agent(
    "Facilities",
    description="Assigns desks and prints badges.",
    output_modes=["text/plain", "application/pdf"],
)


@agent.skill(id="assignDesk", tags=["facilities"], examples=[EXAMPLE])
async def assign_desk(person: Person, ctx: Context):
    """Give the new employee a desk."""
    ctx.status("desk assigned")
    ctx.artifact(
        f"Desk 4-{sum(person.name.encode()) % 90 + 10}, fourth floor, by the window", name="desk"
    )


@agent.skill(id="generateBadge", tags=["facilities"], examples=[EXAMPLE])
async def generate_badge(person: Person, ctx: Context):
    """Print the badge."""
    ctx.artifact(File(badge(person), name="badge.pdf", media_type="application/pdf"), name="badge")


def badge(person: Person) -> bytes:
    """Return a one-page PDF the size of a badge, with a name and a role on it."""
    safe = [
        text.encode("latin-1", "replace").replace(b"(", b"").replace(b")", b"")
        for text in (person.name, person.role)
    ]
    drawing = b"BT /F 18 Tf 20 80 Td (%b) Tj 0 -30 Td /F 11 Tf (%b) Tj ET" % (safe[0], safe[1])
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 240 150]/Contents 4 0 "
        b"R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(drawing), drawing),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    pdf, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(pdf))
        pdf += b"%d 0 obj%b endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(pdf))
    return pdf + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end
